{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set keepalived = metalk8s.keepalived %}
{%- set plane = metalk8s.networks.control_plane %}

{#- The address is of use only beside an API server -#}
{%- if not keepalived.enabled or plane.address not in plane.masters %}

include:
  - metalk8s.keepalived.absent

{%- else %}

include:
  - metalk8s.authorities

Create the folder of keepalived:
  file.directory:
    - name: {{ keepalived.config_folder }}
    - user: root
    - group: root
    - mode: "0700"
    - require:
      - file: Create the folders of certificates

Configure keepalived:
  file.managed:
    - name: {{ keepalived.config_folder }}/keepalived.conf
    - source: salt://metalk8s/keepalived/files/keepalived.conf.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0600"
    - require:
      - file: Create the folder of keepalived

Give keepalived its password:
  metalk8s_credentials.vrrp_password:
    - name: {{ keepalived.config_folder }}/authentication.conf
    - where: metalk8s:bootstrap:apiServer:keepalived:authPassword
    - header: {{ metalk8s.generated | json }}
    - require:
      - file: Create the folder of keepalived

Describe where the virtual address leads:
  file.managed:
    - name: {{ keepalived.config_folder }}/redirection.nft
    - source: salt://metalk8s/keepalived/files/redirection.nft.j2
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0600"
    - require:
      - file: Create the folder of keepalived

{%- endif %}
