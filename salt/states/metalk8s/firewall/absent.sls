{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set firewall = metalk8s.firewall %}
{%- set loopback = "/proc/sys/net/ipv4/conf/all/route_localnet" %}

Remove the rules of the firewall:
  file.absent:
    - names:
      - {{ firewall.policies }}/metalk8s.xml
      - {{ firewall.policies }}/metalk8s-pods.xml

Forget the rules of the firewall:
  cmd.run:
    - name: firewall-cmd --reload
    - onlyif: firewall-cmd --state
    - onchanges:
      - file: Remove the rules of the firewall

# the kernel's other settings stay until the machine starts anew, but this one is not safe without our rule
Close loopback to neighbours:
  cmd.run:
    - name: echo 0 >{{ loopback }}
    - onlyif:
      - test -e {{ firewall.unit }}
      - test "$(cat {{ loopback }})" = 1

Unload the rules of MetalK8s:
  service.dead:
    - name: {{ firewall.service }}
    - enable: false
    - require:
      - cmd: Close loopback to neighbours

# what the agent has written since is the agent's
Let pods reach each other that no agent has told of:
  cmd.run:
    - name: nft delete table ip {{ metalk8s.pod_network.policies }}
    - onlyif: nft list chain ip {{ metalk8s.pod_network.policies }} closed
    - require:
      - service: Unload the rules of MetalK8s

Remove the rules of MetalK8s:
  file.absent:
    - names:
      - {{ firewall.config_folder }}
      - {{ firewall.unit }}
    - require:
      - service: Unload the rules of MetalK8s

Forget the unit of the firewall:
  cmd.run:
    - name: systemctl daemon-reload
    - onchanges:
      - file: Remove the rules of MetalK8s
