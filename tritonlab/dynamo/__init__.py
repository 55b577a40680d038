"""Models as workers of an NVIDIA Dynamo fleet. Only `worker` imports Dynamo, which is not installed with tritonlab."""
