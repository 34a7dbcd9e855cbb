{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Remove the rules of the firewall:
  file.absent:
    - names:
      - {{ metalk8s.firewall.policies }}/metalk8s.xml
      - {{ metalk8s.firewall.policies }}/metalk8s-pods.xml

Forget the rules of the firewall:
  cmd.run:
    - name: firewall-cmd --reload
    - onlyif: firewall-cmd --state
    - onchanges:
      - file: Remove the rules of the firewall
