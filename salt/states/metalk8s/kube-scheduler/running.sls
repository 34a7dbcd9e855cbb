{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.kubelet.running
  - metalk8s.kube-scheduler.certified

Run the scheduler:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-scheduler.yaml
    - source: salt://metalk8s/kube-scheduler/files/manifest.yaml.j2
    - pod: kube-scheduler-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
    - config_files:
      - {{ metalk8s.kube_scheduler.kubeconfig }}
    - require:
      - metalk8s_credentials: Let the scheduler into the API
      - service: Run the kubelet

The scheduler is healthy:
  metalk8s_tls.healthy:
    - name: https://127.0.0.1:{{ metalk8s.ports.kube_scheduler.number }}/healthz
    - require:
      - metalk8s_static_pod: Run the scheduler
