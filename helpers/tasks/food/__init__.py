"""Foods, drawn and photographed, and questions about them."""
