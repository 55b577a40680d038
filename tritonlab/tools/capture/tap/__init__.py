"""`tritonlab tap`: a proxy in front of a server that captures its requests.

One process forwards bytes (`forwarder.py`) and passes copies of them on (`copied_bytes.py`). Another process reads them
(`capture_process.py`): HTTP (`tapped_http.py`), and HTTP/2 (`frame_reader.py`) with gRPC (`tapped_grpc.py`).
"""
