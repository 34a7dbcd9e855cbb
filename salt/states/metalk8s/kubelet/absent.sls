{%- from "metalk8s/map.jinja" import metalk8s with context %}

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
