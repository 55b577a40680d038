"""The version of this package, and the release of Triton that it follows. Its metadata exist only where it is
installed, not merely on the path.
"""

VERSION = "0.1.0"

#: The release of Triton for which models are judged, exported and verified by default; its container is the one that an
#: export's report starts.
DEFAULT_TARGET = "2.51"
