"""The version of this package. Its metadata exist only where it is installed, not merely on the path."""

VERSION = "0.1.0"
