{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop keepalived:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/keepalived.yaml
    - pod: keepalived-{{ metalk8s.node.name }}

Remove the redirection of the virtual address:
  cmd.run:
    - name: nft delete table ip {{ metalk8s.keepalived.table }}
    - onlyif: nft list table ip {{ metalk8s.keepalived.table }}
    - require:
      - metalk8s_static_pod: Stop keepalived

Remove the configuration of keepalived:
  file.absent:
    - name: {{ metalk8s.keepalived.config_folder }}
    - require:
      - metalk8s_static_pod: Stop keepalived
