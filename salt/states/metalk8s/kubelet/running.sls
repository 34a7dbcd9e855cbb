{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

include:
  - metalk8s.container-engine.running
  - metalk8s.kubelet.certified
  - metalk8s.kubelet.configured

Run the kubelet:
  service.running:
    - name: {{ metalk8s.kubelet.service }}
    - enable: true
    - watch:
      - pkg: Install the kubelet
      - file: Configure the kubelet
      - file: Set the arguments of the kubelet
      - metalk8s_credentials: Sign the certificate of the kubelet
      - metalk8s_credentials: Let the kubelet into the API
    - require:
      - file: Create the folder of static pods
      - service: Run the container engine
{%- if metalk8s.has_authorities %}
      - metalk8s_image: Load the image that holds a pod
{%- endif %}
