{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set kernel = metalk8s.kernel %}

include:
  - metalk8s.firewall.running
  - metalk8s.tools.installed

Create the folders of settings of the kernel:
  file.directory:
    - names:
      - {{ kernel.modules_file.rpartition("/")[0] }}
      - {{ kernel.settings_file.rpartition("/")[0] }}
    - user: root
    - group: root
    - mode: "0755"

Have the modules of the kernel at every start:
  file.managed:
    - name: {{ kernel.modules_file }}
    - source: salt://metalk8s/kernel/files/modules.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of settings of the kernel

{%- for module, there in kernel.modules.items() %}

Load the module {{ module }}:
  cmd.run:
    - name: modprobe {{ module }}
    - creates: {{ there }}
    - require:
      - pkg: Install the programs of the system
    - require_in:
      - test: The kernel is ready
{%- endfor %}

Have the settings of the kernel at every start:
  file.managed:
    - name: {{ kernel.settings_file }}
    - source: salt://metalk8s/kernel/files/settings.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folders of settings of the kernel
      - test: The rules of MetalK8s are loaded

{%- for setting, value in kernel.settings.items() %}
{%- set file = "/proc/sys/" ~ setting | replace(".", "/") %}

Set {{ setting | replace(".", " ") }}:
  cmd.run:
    - name: echo {{ value }} >{{ file }}
    - unless: test "$(cat {{ file }})" = "{{ value }}"
    - require:
      - test: The rules of MetalK8s are loaded # one of them opens loopback to neighbours
{%- for module in kernel.modules %}
      - cmd: Load the module {{ module }}
{%- endfor %}
    - require_in:
      - test: The kernel is ready
{%- endfor %}

The kernel is ready:
  test.nop:
    - require:
      - file: Have the modules of the kernel at every start
      - file: Have the settings of the kernel at every start
