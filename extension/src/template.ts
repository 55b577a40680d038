// The notebook that the launcher's card opens: a model that works, and a call of it. No JupyterLab here.

const TITLE = `# A model for Triton

Run the cells from top to bottom. The one with the class *is* the \`model.py\`: change it and run it again.`;

const MODEL = `%%triton_model add --input A:FP32[-1] --input B:FP32[-1] --output SUM:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", a + b)]))
        return responses`;

const CALL = `add(A=[1, 2, 3], B=[10, 20, 30])["SUM"]`;

/** The notebook's cells: [type, text]. */
export const TEMPLATE: ["markdown" | "code", string][] = [
  ["markdown", TITLE],
  ["code", "%load_ext tritonlab"],
  ["code", MODEL],
  ["code", CALL],
];
