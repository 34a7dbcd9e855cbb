"""The product's task graph: which step makes what out of which.

::

    setup   check_for:*                                                     the machine
    _apt_update ─> _debian_closure:* ─> _base_image ─> _builder_image       foundations
    _build_packages:<name>:pkg_* ─> _package_repository:{debian,redhat}     packaging
    _images_fetch ─> _image_pull:<name>                                     pulls
    _image_{build,pull}:<name> ─> _image_dedup_layers ─> _registry_config   images
    _salt_tree_deploy                                                       salt_tree
    _documents_deploy ─> docs                                               documents
    _debian_closure:testbed ─> _testbed_image, _vagrant_key, populate_iso ─> vagrant_up
    _iso_key, _iso_product, all of the above ─> _iso_bill ─> _iso_populate
                                _iso_populate ─> _iso_check ─> _iso_build ─> _iso_{digest,blocks}
"""
