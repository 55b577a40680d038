import "./base.css";
import "../../tritonlab/notebook/static/theme.css";
