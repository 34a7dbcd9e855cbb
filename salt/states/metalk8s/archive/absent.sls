{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set archive = metalk8s.archive %}

{%- if "bootstrap" in metalk8s.node.roles %}

Leave the medium where it is mounted:
  test.nop
{%- else %}

Remove the ISO:
  metalk8s_archive.absent:
    - name: {{ archive.root }}
    - image: {{ archive.folder }}/metalk8s-{{ metalk8s.version }}.iso

Remove what verified the ISO:
  file.absent:
    - names:
      - {{ archive.folder }}
      - {{ metalk8s.renewal.verification.rpartition("/")[0] }}
    - require:
      - metalk8s_archive: Remove the ISO
{%- endif %}
