{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set archive = metalk8s.archive %}
{%- set verifier = metalk8s.renewal.verification %}

{%- if "bootstrap" in metalk8s.node.roles %}
{%- set image = salt["metalk8s_archive.image"](archive.root) %}
{%- if image %}

# Its owner may have kept it from others.
Let the repositories read the ISO:
  metalk8s_archive.readable:
    - name: {{ image | json }}
{%- endif %}

# bootstrap.sh does it, before there is Salt.
The medium is at its place:
  test.nop
{%- else %}
{%- set name = "metalk8s-" ~ metalk8s.version ~ ".iso" %}
{%- set own = "https://" ~ metalk8s.networks.control_plane.address ~ ":" ~ metalk8s.repositories.port %}
{%- set urls = [] %}
{%- for server in metalk8s.repositories.servers if server != own %}
  {%- do urls.append(server ~ "/archives/" ~ name) %}
{%- endfor %}

include:
  - metalk8s.authorities

Create the folders of archives:
  file.directory:
    - names:
      - {{ archive.folder.rpartition("/")[0] }}
      - {{ archive.folder }}
    - user: root
    - group: root
    - mode: "0755"

Fetch the ISO:
  metalk8s_archive.fetched:
    - name: {{ archive.folder }}/{{ name }}
    - version: {{ metalk8s.version }}
    - machine: {{ metalk8s.bootstrap_machine.name | json }}
    - urls: {{ urls | json }}
    - authority: {{ metalk8s.pki.authorities.repositories.path }}.crt
    - verifier: {{ verifier }}
    - require:
      - file: Create the folders of archives
      - test: The certificate authorities are ready

Mount the ISO:
  metalk8s_archive.mounted:
    - name: {{ archive.root }}
    - image: {{ archive.folder }}/{{ name }}
    - version: {{ metalk8s.version }}
    - header: {{ metalk8s.generated | json }}
    - verifier: {{ verifier }}
    - require:
      - metalk8s_archive: Fetch the ISO

The medium is at its place:
  test.nop:
    - require:
      - metalk8s_archive: Mount the ISO
{%- endif %}
