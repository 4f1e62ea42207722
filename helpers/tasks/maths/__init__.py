"""Word problems in GSM8K's format, generated, and GSM8K itself."""
