{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

Stop the kubelet:
  service.dead:
    - name: {{ metalk8s.kubelet.service }}
    - enable: false

Release the version of the kubelet:
  pkg.unheld:
    - pkgs: {{ metalk8s.kubelet.packages | json }}

Remove the kubelet:
  pkg.purged:
    - pkgs: {{ metalk8s.kubelet.packages | map("first") | list | json }}
    - require:
      - service: Stop the kubelet
      - pkg: Release the version of the kubelet

Remove the configuration of the kubelet:
  file.absent:
    - names:
      - {{ metalk8s.kubelet.static_pods }}
      - {{ metalk8s.kubelet.config }}
      - {{ metalk8s.kubelet.arguments }}
      - {{ metalk8s.kubelet.kubeconfig }}
      - {{ metalk8s.kubelet.certificate }}.crt
      - {{ metalk8s.kubelet.certificate }}.key
    - require:
      - pkg: Remove the kubelet
