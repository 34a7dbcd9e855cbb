{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Take the administrator out of the API:
  file.absent:
    - name: {{ metalk8s.administrator.kubeconfig }}
