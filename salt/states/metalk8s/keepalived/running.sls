{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set folder = metalk8s.keepalived.config_folder %}
{%- set plane = metalk8s.networks.control_plane %}

include:
  - metalk8s.keepalived.configured
{%- if metalk8s.keepalived.enabled and plane.address in plane.masters %}
  - metalk8s.authorities
  - metalk8s.kubelet.running

Run keepalived:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/keepalived.yaml
    - source: salt://metalk8s/keepalived/files/manifest.yaml.j2
    - pod: keepalived-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
    - config_files:
      - {{ metalk8s.pki.authorities.kubernetes.path }}.crt
      - {{ folder }}/authentication.conf
      - {{ folder }}/keepalived.conf
      - {{ folder }}/redirection.nft
    - require:
      - test: The certificate authorities are ready
      - file: Configure keepalived
      - metalk8s_credentials: Give keepalived its password
      - file: Describe where the virtual address leads
      - service: Run the kubelet
{%- endif %}
