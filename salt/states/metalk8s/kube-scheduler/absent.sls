{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the scheduler:
  file.absent:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-scheduler.yaml

Take the scheduler out of the API:
  file.absent:
    - name: {{ metalk8s.kube_scheduler.kubeconfig }}
    - require:
      - file: Stop the scheduler
