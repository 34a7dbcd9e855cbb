{%- set metalk8s = salt["metalk8s_map.known"](saltenv) %}

# the client stays: others may use it by now
Forget the machines that joined:
  file.absent:
    - names:
      - {{ metalk8s.enrolment.pins }}
      - {{ metalk8s.enrolment.known_hosts }}
