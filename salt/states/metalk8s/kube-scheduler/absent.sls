{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the scheduler:
  metalk8s_static_pod.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-scheduler.yaml
    - pod: kube-scheduler-{{ metalk8s.node.name }}

Take the scheduler out of the API:
  file.absent:
    - name: {{ metalk8s.kube_scheduler.kubeconfig }}
    - require:
      - metalk8s_static_pod: Stop the scheduler
