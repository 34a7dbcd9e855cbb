{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the controller manager:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-controller-manager.yaml
    - pod: kube-controller-manager-{{ metalk8s.node.name }}

Take the controller manager out of the API:
  file.absent:
    - name: {{ metalk8s.kube_controller_manager.kubeconfig }}
    - require:
      - metalk8s_static_pod: Stop the controller manager
