{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}
{%- set pki = metalk8s.pki %}
{%- set folder = pki.authorities.kubernetes.path.rpartition("/")[0] %}

include:
  - metalk8s.administrator
  # it comes first: who administers asks at the virtual address, where there is one
  - metalk8s.keepalived
  - metalk8s.kube-apiserver.certified
  - metalk8s.kube-apiserver.configured
  - metalk8s.kubelet.running

Run the API server:
  metalk8s_static_pod.managed:
    - name: {{ metalk8s.kubelet.static_pods }}/kube-apiserver.yaml
    - source: salt://metalk8s/kube-apiserver/files/manifest.yaml.j2
    - pod: kube-apiserver-{{ metalk8s.node.name }}
    - context:
        metalk8s: {{ metalk8s | json }}
        certificates: {{ folder }}
    - config_files:
{%- for authority in ("kubernetes", "etcd", "front_proxy") %}
      - {{ pki.authorities[authority].path }}.crt
{%- endfor %}
{%- for pair in ("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client") %}
      - {{ folder }}/{{ pair }}.crt
      - {{ folder }}/{{ pair }}.key
{%- endfor %}
      - {{ pki.service_accounts.path }}.key
      - {{ pki.service_accounts.path }}.pub
      - {{ metalk8s.kube_apiserver.encryption }}
      - {{ metalk8s.kube_apiserver.config_folder }}/audit-policy.yaml
      - {{ metalk8s.kube_apiserver.config_folder }}/admission.yaml
    - require:
      - metalk8s_credentials: Sign the certificate of the API server
      - metalk8s_credentials: Sign the certificate of the API server towards kubelets
      - metalk8s_credentials: Sign the certificate of the API server towards etcd
      - metalk8s_credentials: Sign the certificate of the API server towards its extensions
      - metalk8s_credentials: Have the key that encrypts Secrets
      - file: Say what the API server records
      - file: Say what the API server admits
      - file: Create the audit log
      - service: Run the kubelet

The API server answers:
  metalk8s_kubernetes.answers:
    - name: {{ metalk8s.administrator.kubeconfig }}
    - require:
      - metalk8s_static_pod: Run the API server
      - metalk8s_credentials: Let the administrator into the API

# The administrator may ask another machine's, and what is deployed needs just any: so nothing waits for this one. It is
# asked as the balancer asks it, without a certificate; it is not ready while it has no etcd.
The API server of this machine answers:
  metalk8s_tls.answers:
    - name: {{ metalk8s.kube_apiserver.local_url }}/readyz
    - authority: {{ pki.authorities.kubernetes.path }}.crt
    - require:
      - metalk8s_static_pod: Run the API server
