"""The version of this package: its metadata have it only where the package is installed, not merely on the path."""

VERSION = "0.1.0"
