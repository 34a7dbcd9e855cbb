{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the repositories:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/repositories.yaml

Remove the configuration of the repositories:
  file.absent:
    - name: {{ metalk8s.repositories.config_folder }}
    - require:
      - file: Stop the repositories
