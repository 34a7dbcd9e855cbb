{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Open the ports to who uses them:
  file.managed:
    - name: {{ metalk8s.firewall.policies }}/metalk8s.xml
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
    - name: {{ metalk8s.firewall.policies }}/metalk8s-pods.xml
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
