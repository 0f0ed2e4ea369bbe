"""The demonstration behind ``make demo``: a year of flights, two streaming queries, and proof.

::

    java        is there a Java that Spark can run on, and what to do if there is none
    flights     the flights as JSON messages, and what must come out in the end
    broker      the dev broker in a process of its own
    publisher   SENDs the flights
    queries     the two streaming queries
    results     what the first query adds up, batch by batch
    watch       one sample a second until everything has arrived
    report      progress lines, result table and proof
    progress    what is waited for, and how far it is
    plot        the PNG
    app         puts them together

This is an application on top of the package: nothing else imports it.
"""
