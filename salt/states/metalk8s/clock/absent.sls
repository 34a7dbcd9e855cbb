{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set clock = metalk8s.clock %}

Remove chrony that nobody else had:
  pkg.purged:
    - pkgs: {{ clock.system | json }}
    - onlyif: test -e {{ clock.drop_in }}
    - unless: test -e {{ clock.found }}

Remove the configuration of the clock:
  file.absent:
    - names:
      - {{ clock.drop_in }}
      - {{ clock.config_folder }}
      - {{ clock.config }}
    - require:
      - pkg: Remove chrony that nobody else had

Forget who kept the clock:
  file.absent:
    - name: {{ clock.record }}

# as it was before, where it was; a drop-in of the site stays
Let chrony go on without us:
  cmd.run:
    - name: >-
        for folder in {{ clock.drop_in.rpartition("/")[0] }} {{ clock.config_folder.rpartition("/")[0] }}; do
        test ! -d $folder || rmdir --ignore-fail-on-non-empty $folder; done;
        systemctl daemon-reload;
        ! systemctl --quiet is-active {{ clock.service }}.service || systemctl restart {{ clock.service }}.service
    - onchanges:
      - file: Remove the configuration of the clock
{%- if clock.replaced %}

# APT took it away for ours; only the site's own sources have it, and may be out of reach
Give the machine its time service back:
  cmd.run:
    - name: >-
        DEBIAN_FRONTEND=noninteractive timeout 120 apt-get --quiet --yes --no-install-recommends
        install {{ clock.replaced }} ||
        echo "{{ clock.replaced }} cannot be installed now. The clock is nobody's until somebody does."
    - onlyif: test "$(dpkg-query --show --showformat='${db:Status-Status}' {{ clock.replaced }})" = config-files
    - onchanges:
      - pkg: Remove chrony that nobody else had
{%- endif %}
