// The order of what the search finds: pages that answer a question come before those that list all there is. The numbers
// are Sphinx's own; `score` adds to them.
var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (page.startsWith("how-to/") && page !== "how-to/index") return score + 12;
    if (page === "reference/glossary" || page === "reference/states") return score + 10;
    if (page.startsWith("tutorial/") || page.startsWith("explanation/")) return score + 6;
    return page === "changelog" || page === "reference/rules" ? score - 4 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
