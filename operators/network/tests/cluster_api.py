"""An API server with several collections, of which only that of Nodes was there before."""

from __future__ import annotations

from api_server import ApiServer

PODS, NAMESPACES = "/api/v1/pods", "/api/v1/namespaces"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"


class ClusterApi(ApiServer):
    """Nodes are its own; ``others`` has the rest by path. Names are one of a kind in each."""

    def __init__(self, listening=None):
        super().__init__(listening)
        self.others = {path: ApiServer() for path in (PODS, NAMESPACES, POLICIES)}
        handler = self._server.RequestHandlerClass
        nodes, others = self, self.others

        def collection(asked):
            return others.get(asked.path.partition("?")[0], nodes)

        handler.api = property(collection)

    def close(self):
        for other in self.others.values():
            other.close()
        super().close()

    def be(self, namespaces, pods, policies):
        """Let objects be there, and no others."""
        for path, items in ((NAMESPACES, namespaces), (PODS, pods), (POLICIES, policies)):
            names = {item["metadata"]["name"] for item in items}
            for name in self.others[path].objects.keys() - names:
                self.others[path].remove(name)
            for item in items:
                self.others[path].put(item)
