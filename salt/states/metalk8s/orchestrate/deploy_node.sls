# A machine joins the cluster, or becomes again what its labels say. For the Salt master, which plans it:
#   salt-run state.orchestrate metalk8s.orchestrate.deploy_node saltenv=metalk8s-<version>
#     pillar='{"orchestrate": {"node_name": "<name>"}}'
{%- set plan = salt["metalk8s_orchestration.planned"]("deploy") %}

Begin the deployment:
  metalk8s_deploy.begun:
    - name: Deployment of {{ plan.node }}
    - node: {{ plan.node | json }}
    - action: {{ plan.action }}
{%- for step in plan.steps %}

Step {{ loop.index }} of the deployment:
  metalk8s_deploy.done:
    - name: {{ step.title | json }}
    - node: {{ plan.node | json }}
    - step: {{ step.id | json }}
    - require:
      - metalk8s_deploy: {{ "Begin the deployment" if loop.first else "Step " ~ loop.index0 ~ " of the deployment" }}
{%- endfor %}

# Whatever has become of the steps.
End the deployment:
  metalk8s_deploy.ended:
    - name: End of the deployment of {{ plan.node }}
    - node: {{ plan.node | json }}
    - order: last
