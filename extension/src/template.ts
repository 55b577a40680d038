// The notebooks that the launcher's cards open. No JupyterLab here.
import { magicWord } from "./magicWord.js";

/** The cells of a notebook: [type, text]. */
export type Cells = ["markdown" | "code", string][];

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

/** A model that works, and a call of it. */
export const TEMPLATE: Cells = [
  ["markdown", TITLE],
  ["code", "%load_ext tritonlab"],
  ["code", MODEL],
  ["code", CALL],
];

const ABOUT = `The models of this repository are served from where they lie, and loaded again when their files change. **Bring into
cells** inserts the cells that write a model, below the table: edit and run them. Files that no cell writes, such as
weights, stay in the repository and are used from there.`;

const EXPORT = `# the whole repository again: what no cell has edited is the same, byte for byte
# import tritonlab
# tritonlab.open(PATH).export("exported")`;

/** What serves a repository beside the notebook. */
export function openingCells(name: string): Cells {
  return [
    ["markdown", `# ${name}\n\n${ABOUT}`],
    ["code", "%load_ext tritonlab"],
    ["code", `%triton open ${magicWord(name)}`],
    ["code", EXPORT.replace("PATH", JSON.stringify(name))],
  ];
}
