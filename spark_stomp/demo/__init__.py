"""The demonstration behind ``make demo``: a year of flights, two streaming queries, and a proof.

``queries``   the two streaming queries: begin here
``flights``   the flights as JSON messages, and the results that are expected
``__main__``  publishes the flights, starts the queries, watches them, and proves the result
``report``    progress lines, result table, proof, plot
"""
