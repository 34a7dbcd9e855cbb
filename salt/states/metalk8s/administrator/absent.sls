{%- from "metalk8s/map.jinja" import metalk8s with context %}

Take the administrator out of the API:
  file.absent:
    - name: {{ metalk8s.administrator.kubeconfig }}
