{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set clock = metalk8s.clock %}
{%- if not clock.managed %}

include:
  - metalk8s.clock.absent
{%- elif clock.other %}

include:
  - metalk8s.authorities

# for good: it may be without an answer the next time
Leave the clock to who keeps it:
  file.managed:
    - name: {{ clock.record }}
    - contents: {{ ["# " ~ metalk8s.generated, clock.other] | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of certificates
{%- else %}

Create the folders of the clock:
  file.directory:
    - names:
      - {{ clock.config_folder.rpartition("/")[0] }}
      - {{ clock.config_folder }}
      - {{ clock.drop_in.rpartition("/")[0] }}
    - user: root
    - group: root
    - mode: "0755"

# it stays then when ours goes; before the file that makes it ours
Remember that chrony was here before:
  file.managed:
    - name: {{ clock.found }}
    - contents: {{ ["# " ~ metalk8s.generated] | json }}
    - user: root
    - group: root
    - mode: "0644"
    - onlyif: command -v chronyd
    - unless: test -e {{ clock.drop_in }}
    - require:
      - file: Create the folders of the clock
{%- for title, path in (
    ("Configure the clock", clock.config),
    ("Say whom the clock follows", clock.config_folder ~ "/clock.sources"),
    ("Say whom a clock that starts asks", clock.config_folder ~ "/start.conf"),
    ("Let chrony read our configuration", clock.drop_in),
) %}

{{ title }}:
  file.managed:
    - name: {{ path }}
    - source: salt://metalk8s/clock/files/{{ path.rpartition("/")[2] }}.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Remember that chrony was here before
{%- endfor %}
{%- endif %}
