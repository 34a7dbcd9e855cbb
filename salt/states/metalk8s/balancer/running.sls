{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set balancer = metalk8s.balancer %}
{%- set authority = metalk8s.pki.authorities.kubernetes.path ~ ".crt" %}
{%- set is_first = "bootstrap" in metalk8s.node.roles %}

include:
  - metalk8s.authorities
  - metalk8s.balancer.configured
  - metalk8s.container-engine.running
  - metalk8s.kubelet.running
{%- if is_first %}

# Its registry comes later.
Load the image of the balancer:
  metalk8s_image.loaded:
    - name: {{ balancer.image.reference }}
    - tree: {{ balancer.image.tree }}
    - require:
      - service: Run the container engine
    - require_in:
      - metalk8s_static_pod: Run the balancer
{%- endif %}

Run the balancer:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/balancer.yaml
    - source: salt://metalk8s/balancer/files/manifest.yaml.j2
    - pod: balancer-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
    - config_files:
      - {{ balancer.config_folder }}/haproxy.cfg
      - {{ authority }}
    - require:
      - test: The certificate authorities are ready
      - file: Configure the balancer
      - service: Run the kubelet

The balancer runs:
  metalk8s_tls.healthy:
    - name: http://127.0.0.1:{{ metalk8s.ports.balancer_health.number }}/healthz
    - require:
      - metalk8s_static_pod: Run the balancer
{%- if not is_first %}

# Whoever asks it must believe the answer: an API server's certificate has the name of loopback, too.
The API answers through the balancer:
  metalk8s_tls.answers:
    - name: {{ balancer.url }}/readyz
    - authority: {{ authority }}
    - require:
      - metalk8s_tls: The balancer runs
{%- endif %}
