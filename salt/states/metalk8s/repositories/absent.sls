{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the repositories:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/repositories.yaml
    - pod: repositories-{{ metalk8s.node.name }}

Remove the configuration of the repositories:
  file.absent:
    - name: {{ metalk8s.repositories.config_folder }}
    - require:
      - metalk8s_static_pod: Stop the repositories
