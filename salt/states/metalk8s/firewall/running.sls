{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set firewall = metalk8s.firewall %}

include:
  - metalk8s.firewall.configured
  - metalk8s.tools.installed

Load the rules of MetalK8s:
  service.running:
    - name: {{ firewall.service }}
    - enable: true
    - reload: true # at once; a restart would leave a moment without any
    - watch:
      - file: Keep neighbours from loopback
      - file: Keep strangers from the ports
      - file: Keep pods apart until their policies are known
      - file: Say which rules are loaded
      - file: Load the rules before there is a network
    - require:
      - pkg: Install the programs of the system

# who flushes the packet filter takes ours along; and firewalld may be gone since
Load the rules again that somebody took away:
  cmd.run:
    - name: systemctl reload {{ firewall.service }}.service
    - unless: /bin/sh {{ firewall.config_folder }}/load.sh --check
    - require:
      - service: Load the rules of MetalK8s

The rules of MetalK8s are loaded:
  test.nop:
    - require:
      - cmd: Load the rules again that somebody took away
