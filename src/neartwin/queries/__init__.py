"""Questions and plans: table, query, SQL front end, bounding, sensitivity, plan. Touches the schema only."""
