# Spark with its stock Kafka connector and magnetar-pipeline. Build from the root of the repository:
#   docker build -f docker/spark.Dockerfile -t magnetar-spark .
FROM maven:3-eclipse-temurin-17 AS jars
COPY compat/spark/pom.xml pom.xml
RUN mvn -q -B -ntp dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=/jars \
    -DincludeArtifactIds=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2

FROM python:3.11-slim
# Spark runs on Java 17 and newer; "default" is what this Debian has.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home spark && install -d -o spark -g spark /archive
WORKDIR /src
COPY requirements/run.lock requirements/run.lock
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.lock
RUN pip install --no-cache-dir --disable-pip-version-check pyspark==4.2.0
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY semantics semantics
COPY store store
COPY pipeline pipeline
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .
COPY --from=jars /jars /opt/jars
ENV PYTHONUNBUFFERED=1 \
    MAGNETAR_SPARK_JARS=/opt/jars
USER spark
WORKDIR /archive
VOLUME /archive
STOPSIGNAL SIGTERM
ENTRYPOINT ["magnetar-pipeline"]
CMD ["--help"]
