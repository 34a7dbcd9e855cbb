{%- from "metalk8s/map.jinja" import metalk8s with context %}

Stop the repositories:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/repositories.yaml

Remove the configuration of the repositories:
  file.absent:
    - name: {{ metalk8s.repositories.config_folder }}
    - require:
      - file: Stop the repositories
