{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the controller manager:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-controller-manager.yaml

Take the controller manager out of the API:
  file.absent:
    - name: {{ metalk8s.kube_controller_manager.kubeconfig }}
    - require:
      - file: Stop the controller manager
