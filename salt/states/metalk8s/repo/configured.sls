{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set repo = metalk8s.repo %}
{%- if not repo.is_local %}

include:
  - metalk8s.authorities

Create the folder of keys that packages are signed with:
  file.directory:
    - name: {{ repo.key_folder }}
    - user: root
    - group: root
    - mode: "0755"
    - require:
      - file: Create the folders of certificates
{%- for path in repo.signing_keys %}

Keep the key {{ path.rpartition("/")[2] | replace(".", " ") }} of packages:
  file.managed:
    - name: {{ path }}
    - contents_pillar: metalk8s:signing_keys:{{ path.rpartition("/")[2] }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - file: Create the folder of keys that packages are signed with
    - require_in:
      - file: Configure the MetalK8s package repository
{%- endfor %}
{%- if repo.transport.file %}

Say whom the package manager trusts to serve our packages:
  file.managed:
    - name: {{ repo.transport.file }}
    - source: salt://metalk8s/repo/files/{{ metalk8s.os_family }}/{{ repo.transport.template }}
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"
    - require:
      - test: The certificate authorities are ready
    - require_in:
      - file: Configure the MetalK8s package repository
{%- endif %}
{%- endif %}

Configure the MetalK8s package repository:
  file.managed:
    - name: {{ repo.source }}
    - source: salt://metalk8s/repo/files/{{ metalk8s.os_family }}/{{ repo.template }}
    - template: jinja
    - context:
        metalk8s: {{ metalk8s | json }}
    - user: root
    - group: root
    - mode: "0644"

{%- if repo.refresh.command %}

Refresh the index of the MetalK8s package repository:
  cmd.run:
    - name: {{ repo.refresh.command }}
{%- if repo.is_local %}
    # an APT that was killed may have left the one without the other
    {%- set there = repo.refresh.indexes ~ "/" ~ repo.index | replace("/", "_") %}
    - unless: cmp --silent {{ repo.index }} {{ there }} && ls {{ there | replace("InRelease", "") }}*_Packages*
{%- else %}
    # the version is part of where it comes from: an index that is there is the right one
    {%- set there = repo.refresh.indexes ~ "/" ~ (repo.url ~ "/" ~ repo.index_below) | replace("https://", "") | replace("/", "_") %}
    - unless: test -s {{ there }} && ls {{ there | replace("InRelease", "") }}*_Packages*
{%- endif %}
    - require:
      - file: Configure the MetalK8s package repository
    - require_in:
      - test: The MetalK8s package repository is ready
{%- endif %}

{%- if metalk8s.version_lock.packages %}

Install what holds package versions:
  pkg.installed:
    - pkgs: {{ metalk8s.version_lock.packages | json }}
    - refresh: false
{%- for option, value in metalk8s.repo.install_options.items() %}
    - {{ option }}: {{ value | json }}
{%- endfor %}
    - require:
      - file: Configure the MetalK8s package repository
    - require_in:
      - test: The MetalK8s package repository is ready
{%- endif %}

The MetalK8s package repository is ready:
  test.nop:
    - require:
      - file: Configure the MetalK8s package repository
