{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the balancer:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/balancer.yaml
    - pod: balancer-{{ metalk8s.node.name }}

Remove the configuration of the balancer:
  file.absent:
    - name: {{ metalk8s.balancer.config_folder }}
    - require:
      - metalk8s_static_pod: Stop the balancer
