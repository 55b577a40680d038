// The user's settings (`schema/plugin.json`), with what holds until they are read.
import { ISettingRegistry } from "@jupyterlab/settingregistry";

const PLUGIN = "tritonlab:plugin";

export class Settings {
  /** where an export goes, unless something else is typed */
  directory = "model_repository";

  constructor(registry: ISettingRegistry | null) {
    void registry?.load(PLUGIN).then((settings) => {
      const read = (): void => {
        this.directory = settings.get("directory").composite as string;
      };
      settings.changed.connect(read);
      read();
    });
  }
}
