"""Models as workers of an NVIDIA Dynamo fleet. Only `worker` imports Dynamo, which tritonlab does not bring."""
