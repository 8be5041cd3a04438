WITH pairs AS (
  SELECT user_id, city, count(*) AS n, sum(CAST(round(least(greatest(amount, 0), 100) * 100) AS BIGINT)) AS s
  FROM '{path}' WHERE user_id IS NOT NULL GROUP BY user_id, city),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY {first} hash(hash(7, user_id, city)), city) AS place FROM pairs)
SELECT city, count(*) AS users, sum(least(n, 20)) AS n, sum(CASE WHEN n > 20 THEN s * 20 // n ELSE s END) / 100 AS total
FROM ranked WHERE place <= 10 GROUP BY city
