"""What is to be built: settings, pins, the checkout and its commit."""
