{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set firewall = metalk8s.firewall %}

include:
  - metalk8s.authorities
  - metalk8s.tools.installed

Create the folder of the firewall:
  file.directory:
    - name: {{ firewall.config_folder }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates
{%- for title, path in (
    ("Keep neighbours from loopback", firewall.config_folder ~ "/loopback.nft"),
    ("Keep strangers from the ports", firewall.config_folder ~ "/ports.nft"),
    ("Keep pods apart until their policies are known", firewall.config_folder ~ "/pods.nft"),
    ("Say which rules are loaded", firewall.config_folder ~ "/load.sh"),
    ("Load the rules before there is a network", firewall.unit),
) %}

{{ title }}:
  file.managed:
    - name: {{ path }}
    - source: salt://metalk8s/firewall/files/{{ path.rpartition("/")[2] }}.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folder of the firewall
{%- endfor %}

Open the ports to who uses them:
  file.managed:
    - name: {{ firewall.policies }}/metalk8s.xml
    - source: salt://metalk8s/firewall/files/metalk8s.xml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - onlyif: command -v firewall-cmd

Let the traffic of pods through:
  file.managed:
    - name: {{ firewall.policies }}/metalk8s-pods.xml
    - source: salt://metalk8s/firewall/files/metalk8s-pods.xml.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - onlyif: command -v firewall-cmd

Apply the rules of the firewall:
  cmd.run:
    - name: firewall-cmd --reload
    - onlyif: firewall-cmd --state
    - onchanges:
      - file: Open the ports to who uses them
      - file: Let the traffic of pods through
