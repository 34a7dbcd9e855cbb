{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repositories = metalk8s.repositories %}
{%- set archive = metalk8s.archive %}
{#- Where bootstrap.sh ran it is wherever the operator put it; elsewhere it comes before the pod -#}
{%- set image = salt["metalk8s_archive.image"](archive.root) if "bootstrap" in metalk8s.node.roles
                else archive.folder ~ "/metalk8s-" ~ metalk8s.version ~ ".iso" %}

include:
  - metalk8s.archive.deployed
  - metalk8s.container-engine.running
  - metalk8s.kubelet.running
  - metalk8s.repositories.certified
  - metalk8s.repositories.configured

Load the image of the repositories:
  metalk8s_image.loaded:
    - name: {{ repositories.image.reference }}
    - tree: {{ repositories.image.tree }}
    - require:
      - service: Run the container engine
      - test: The medium is at its place

Run the repositories:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/repositories.yaml
    - source: salt://metalk8s/repositories/files/manifest.yaml.j2
    - pod: repositories-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
        image: {{ image | json }}
    - config_files:
      - {{ repositories.config_folder }}/conf.d/repositories.conf
      - {{ repositories.config_folder }}/tls/server.crt
      - {{ repositories.config_folder }}/tls/server.key
    - require:
      - metalk8s_image: Load the image of the repositories
      - file: Configure the repositories
      - metalk8s_credentials: Sign the certificate of the repositories
      - service: Run the kubelet

The repositories answer:
  metalk8s_tls.answers:
    - name: {{ repositories.url }}/v2/
    - authority: {{ metalk8s.pki.authorities.repositories.path }}.crt
    - require:
      - metalk8s_static_pod: Run the repositories
