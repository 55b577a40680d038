import "./base.css";
import "./theme.css";
