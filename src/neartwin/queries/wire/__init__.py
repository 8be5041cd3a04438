"""Questions as JSON, for the service and its clients."""
