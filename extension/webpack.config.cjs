// Equal sources give an equal bundle, byte for byte: ids are paths below this folder, and do not depend on where it or
// a linked node_modules lies, nor on what was compiled first (`compare.mjs`).
module.exports = {
  optimization: { moduleIds: "named", chunkIds: "named" },
  resolve: { symlinks: false },
};
